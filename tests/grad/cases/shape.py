"""Cases for grad/rules/shape.py."""

import numpy as np

from tests.grad.checks import Case

I64 = np.int64


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


def reshape(shape, target, **attributes) -> Case:
    return Case("Reshape", (shape, ints(*target)), attributes, name=f"Reshape-{shape}-{target}")


def cut(shape, starts, ends, axes=None, steps=None, name="") -> Case:
    inputs = [shape, ints(*starts), ints(*ends), axes and ints(*axes), steps and ints(*steps)]
    while inputs[-1] is None:
        inputs.pop()
    return Case("Slice", inputs, name=name or f"Slice-{starts}-{ends}-{axes}-{steps}")


def pad(shape, pads, mode="constant", value=None, axes=None, **options) -> Case:
    inputs = [shape, ints(*pads), value, axes and ints(*axes)]
    while inputs[-1] is None:
        inputs.pop()
    name = f"Pad-{mode}-{pads}-{'value' if value is not None else ''}-{axes}"
    return Case("Pad", inputs, {"mode": mode}, name=name, **options)


ONES = np.ones((1, 3))

CASES = [
    reshape((2, 3), (3, 2)),
    reshape((2, 3, 2), (0, -1)),
    reshape((0, 3), (3, 0), allowzero=1),
    reshape((1, 1), ()),
    reshape((), (1,)),
    Case("Flatten", ((2, 3, 2),)),
    Case("Flatten", ((2, 3, 2),), {"axis": 0}),
    Case("Flatten", ((2, 3, 2),), {"axis": -1}),
    Case("Flatten", ((),), {"axis": 0}, name="Flatten-scalar"),
    Case("Squeeze", ((2, 1, 3, 1), ints(1, -1))),
    Case("Squeeze", ((2, 1, 3, 1),), name="Squeeze-all", runs32=False),  # which axes: unknown for symbolic dimensions
    Case("Unsqueeze", ((2, 3), ints(-1, 0))),
    Case("Transpose", ((2, 3, 4),)),
    Case("Transpose", ((2, 3, 4),), {"perm": [2, 0, 1]}),
    Case("Transpose", ((),), name="Transpose-scalar"),
    Case("Expand", ((3, 1), ints(2, 1, 4))),
    Case("Expand", ((3, 2), ints(1, 1)), name="Expand-two-way"),
    Case("Expand", ((), ints(2, 2)), name="Expand-scalar"),
    Case("Expand", ((2, 1), ints(2, 0)), name="Expand-empty"),
    Case("Tile", ((2, 3), ints(2, 1))),
    Case("Tile", ((2, 3), ints(3, 2)), name="Tile-both"),
    Case("Tile", ((3,), ints(0)), name="Tile-none"),
    Case("Tile", ((), np.zeros(0, I64)), name="Tile-scalar", half=False),
    Case("Concat", ((2, 3), (2, 1), (2, 2)), {"axis": -1}),
    Case("Concat", ((2, 3), (0, 3)), {"axis": 0}, name="Concat-empty"),
    Case("Concat", ((2, 3),), {"axis": 0}, name="Concat-one"),
    Case("Concat", ((2, 3), ONES, (3, 3)), {"axis": 0}, fixed=(1,), name="Concat-two-wanted"),
    Case("Concat", (ONES, (2, 3), ONES), {"axis": -2}, fixed=(0, 2), name="Concat-one-wanted"),
    Case("Split", ((5, 2), ints(2, 3)), outputs=2),
    Case("Split", ((2, 5), ints(2, 0, 3)), {"axis": -1}, outputs=3, name="Split-zero"),
    Case("Split", ((5,),), {"num_outputs": 2}, outputs=2, name="Split-uneven"),
    Case("Split", ((4,),), {"num_outputs": 2}, outputs=2, seeded=(0,), name="Split-one-used"),
    Case("Split", ((4,),), {"num_outputs": 1}, name="Split-one"),
    cut((4, 5), (1, 2), (3, 5)),
    cut((4, 5), (-3,), (-1,), (1,)),
    cut((4, 5), (-100, 3), (100, 100), (0, 1)),
    cut((4, 5), (3,), (1,), (0,)),
    cut((4, 5), (0,), (9,), (-1,), (2,)),
    cut((4, 5), (3, -1), (-9, 0), (0, 1), (-1, -2)),
    cut((4, 5), (0, 0), (9, 9), (1, 0), (1, 1)),
    cut((0, 3), (0,), (2,), (1,)),
    pad((2, 3), (1, 0, 2, 3)),
    pad((2, 3), (1, 2), axes=(-1,)),
    pad((2, 3), (1, 0, 2, 3), value=np.array(1.5)),
    pad((2, 3), (0, 0, 0, 0)),
    pad((2, 0), (1, 1, 0, 1)),
    pad((4,), (2, 3), "reflect"),
    pad((3, 4), (1, 2, 2, 1), "reflect"),
    pad((3, 2), (2, 1), "edge", axes=(1,)),
    pad((2, 3), (1, 2, 2, 3), "wrap"),
    Case("CenterCropPad", ((5, 2), ints(2, 5))),
    Case("CenterCropPad", ((4, 3, 2), ints(5, 1)), {"axes": [0, -2]}, name="CenterCropPad-axes"),
    Case("DepthToSpace", ((1, 8, 2, 1),), {"blocksize": 2}),
    Case("DepthToSpace", ((2, 4, 1, 2),), {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", ((1, 2, 4, 2),), {"blocksize": 2}),
    Case("Trilu", ((3, 4),)),
    Case("Trilu", ((2, 3, 3), np.array(-1, I64)), {"upper": 0}),
    Case("ReverseSequence", ((4, 3), ints(4, 1, 2))),
    Case("ReverseSequence", ((3, 4, 2), ints(1, 3, 4)), {"batch_axis": 0, "time_axis": 1}),
]

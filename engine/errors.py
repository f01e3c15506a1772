"""Every error of onnxgrad: what happened, where, why, and what to do about it."""


class OnnxGradError(Exception):
    """The root of all errors. The message holds up to four parts, one a line.

    what: the fact, in one sentence.  where: op, node, value with dtype and shape, or a file.
    why: the cause, where it is known.  fix: what the reader can do.
    """

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix
        parts = [
            what,
            f"  at: {where}" if where else "",
            f"  because: {why}" if why else "",
            f"  try: {fix}" if fix else "",
        ]
        super().__init__("\n".join(part for part in parts if part))


class ModelError(OnnxGradError):
    """A model is damaged, is not ONNX, or breaks a rule of the ONNX standard."""


class ExternalDataError(ModelError):
    """A tensor's external data is missing, has the wrong size, or lies outside the model's folder."""


class VerificationError(ModelError):
    """An invariant of the IR does not hold (see engine/ir/verify.py)."""


class EquivalenceError(OnnxGradError):
    """A transformed model gives other values than the model it was made from."""


class ShapeError(OnnxGradError, ValueError):
    """Types or shapes do not fit together."""


class OpsetError(OnnxGradError):
    """A model cannot be brought to another opset with the same meaning."""


class InputError(OnnxGradError, ValueError):
    """A call was given a wrong name, dtype, shape or number of inputs."""


class OptionError(OnnxGradError, ValueError):
    """An option, name or pattern is unknown, or has an impossible value."""


class ProviderError(OnnxGradError):
    """The execution provider that was asked for cannot be used here."""


class GraphError(OnnxGradError):
    """A computing graph is used in a way that it cannot be: values of two graphs, parts out of order, a cycle."""


class ExecutionError(OnnxGradError):
    """A model could not be prepared for execution, or failed while it ran."""


class GradientError(OnnxGradError):
    """A gradient was asked for that does not exist or cannot be built."""


class GradientRuleMissing(GradientError):
    """An operator on the path from the target to the inputs has no gradient rule."""


class TapeError(GradientError, RuntimeError):
    """A tape of gradients is used out of order: backward without a record, a second walk, a record within a record."""


class TrainingError(OnnxGradError):
    """Training cannot start or go on (a label out of range, a loss that is not a number, ...)."""


class CatalogError(OnnxGradError):
    """A model or data set of the catalog cannot be had (network, checksum, unsafe archive)."""

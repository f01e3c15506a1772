"""How images become inputs, from command line arguments."""

from typing import TYPE_CHECKING

from onnxgrad.engine.errors import OptionError

if TYPE_CHECKING:
    from onnxgrad.engine.passes.preprocess import ImageInput


def read_image_input(text: str | None, mean: str, std: str, reverse_channels: bool) -> "ImageInput | None":
    """`NHWC` or `NAME:NHWC`, and numbers; None without the option. Raises: OptionError."""
    from onnxgrad.engine.passes.preprocess import ImageInput

    if text is None:
        if reverse_channels or (mean, std) != ("0", "1"):
            raise OptionError("--mean, --std and --reverse-channels are for --fuse-preprocess.")
        return None
    name, _, layout = text.rpartition(":")
    return ImageInput(name or None, layout.upper(), read_numbers(mean), read_numbers(std), reverse_channels)


def read_numbers(text: str) -> list[float]:
    """`0.485,0.456,0.406`. Raises: OptionError."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError(f"{text!r} is no list of numbers.", fix="--mean 0.485,0.456,0.406") from error

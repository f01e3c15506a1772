"""What was done to a model so that it runs, and where its parts run: data for people and for machines."""

from collections import Counter
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Remedy:
    """One change to a node that the runtime refused, or that it is known to compute wrongly.

    kind: "opset" (same meaning in another opset), "rewritten" (other operators), "expanded" (by its function body),
    "widened" (computed in a wider type), "host" (by the reference implementation of onnx).
    """

    node: str
    op_type: str
    kind: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.op_type} {self.node!r} - {self.why}"


@dataclass(frozen=True)
class RegionReport:
    """One region: what runs it, how many nodes of each type it has, and why it is a region of its own."""

    runs_on: tuple[str, ...]
    nodes: dict[str, int]
    why: str

    @property
    def node_count(self) -> int:
        """The number of nodes, without those of sub-graphs."""
        return sum(self.nodes.values())


@dataclass(frozen=True)
class Explanation:
    """Where a compiled function runs, and why there. `str()` gives text, `to_dict()` what JSON can hold.

    `nodes`: of the model as it was given, sub-graphs and functions included; `on_host`: those that the host runs.
    """

    regions: tuple[RegionReport, ...]
    remedies: tuple[Remedy, ...]
    nodes: int
    on_host: int = 0

    @property
    def delegated_share(self) -> float:
        """The part of the model's own nodes that onnxruntime runs, from 0 to 1; 1 for a model without nodes."""
        return 1.0 if not self.nodes else max(0.0, 1 - self.on_host / self.nodes)

    def to_dict(self) -> dict[str, object]:
        """The same in dicts and lists."""
        regions = [asdict(region) | {"runs_on": list(region.runs_on)} for region in self.regions]
        remedies = [asdict(remedy) for remedy in self.remedies]
        return {"regions": regions, "remedies": remedies, "nodes": self.nodes, "delegated": self.delegated_share}

    def __str__(self) -> str:
        count = len(self.regions)
        share = f"{self.delegated_share:.0%} of {self.nodes} nodes on onnxruntime"
        lines = [f"{count} region{'s' if count != 1 else ''}, {share}"]
        for number, region in enumerate(self.regions, start=1):
            providers = ", ".join(name.removesuffix("ExecutionProvider") for name in region.runs_on)
            ops = ", ".join(f"{many} {op}" if many > 1 else op for op, many in Counter(region.nodes).most_common(8))
            more = f", {len(region.nodes) - 8} more types" if len(region.nodes) > 8 else ""
            lines.append(f"{number}. {providers}: {region.node_count} nodes ({ops}{more})")
            if region.why:
                lines.append(f"   {region.why}")
        return "\n".join((*lines, *(f"- {remedy}" for remedy in self.remedies)))

"""Cases for grad/rules/einsum.py."""

from tests.grad.checks import Case


def einsum(equation, *shapes, **options) -> Case:
    return Case("Einsum", shapes, {"equation": equation}, **options)


CASES = [
    einsum("ij,jk->ik", (2, 3), (3, 4)),
    einsum("bij, bjk -> bki", (2, 2, 3), (2, 3, 2)),
    einsum("i,j->ij", (2,), (3,)),
    einsum("i,i", (3,), (3,)),
    einsum("ij->ji", (2, 3)),
    einsum("ij->j", (2, 3)),
    einsum("ij->", (2, 3)),
    einsum("ij,k->k", (2, 3), (2,)),
    einsum("ii->i", (3, 3)),
    einsum("ii", (3, 3)),
    einsum("iji->j", (2, 3, 2)),
    einsum("jii,i->ij", (3, 2, 2), (2,)),
    einsum("ba", (2, 3)),
    einsum("...ij,...jk->...ik", (2, 1, 2, 3), (1, 2, 3, 2)),
    einsum("...ij,...jk", (2, 2, 3), (1, 3, 2)),
    einsum("i...->...", (2, 3, 2)),
    einsum("...ii->...i", (2, 3, 3)),
    einsum("ij,jk,kl->il", (2, 2), (2, 3), (3, 2)),
    einsum("ij,ij->ij", (2, 3), (2, 1)),
    einsum("ij,ij->i", (2, 3), (2, 1)),
    einsum(",i->i", (), (3,)),
    einsum("ij,jk->ik", (2, 0), (0, 3), name="Einsum-empty"),
]

"""One file of gradient rules per family of operators. The files do not import each other."""

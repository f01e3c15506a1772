"""Operators declared without a gradient. Declarations that belong to a family stand with its rules."""

from onnxgrad.grad.registry import no_gradient

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"

no_gradient("Ceil", "Floor", "Round", "Sign", reason="piecewise constant: zero almost everywhere")
no_gradient(
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN"),
    *("And", "Not", "Or", "Xor"),
    reason="the output is a truth value",
)
no_gradient("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", reason="integers only")
no_gradient("BitCast", reason="reads the bits of a number as another type")
no_gradient("ConvInteger", "QLinearConv", reason="the operands are integers")
no_gradient("Constant", "ConstantOfShape", "EyeLike", reason="the output is constant")
no_gradient("Shape", "Size", reason="depends on the shape of the operand only")
no_gradient("NonMaxSuppression", reason="the output is a list of positions")
no_gradient("ImageDecoder", reason="the operand is an encoded file")
no_gradient("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", reason="the operands are strings")
no_gradient("TfIdfVectorizer", reason="the operands are strings or integers")

no_gradient("Binarizer", domain=ML, reason="piecewise constant: zero almost everywhere")
no_gradient(
    *("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
    domain=ML,
    reason="decision trees are piecewise constant: zero almost everywhere",
)
no_gradient("CastMap", "DictVectorizer", "ZipMap", domain=ML, reason="maps between keys and numbers")
no_gradient("CategoryMapper", "LabelEncoder", "OneHotEncoder", domain=ML, reason="maps categories by table")

no_gradient("Adagrad", "Adam", "Momentum", domain=TRAINING, reason="updates weights at the end of a training step")
no_gradient("Gradient", domain=TRAINING, reason="names a graph to be differentiated by the runtime, which none does")

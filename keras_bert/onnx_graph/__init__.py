"""ONNX graphs of our models, for ONNX Runtime and every other runtime that reads them."""

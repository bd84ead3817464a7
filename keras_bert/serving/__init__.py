"""Serving an export: the development server, and the kit for TF Serving."""

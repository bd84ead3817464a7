"""Devices by their names in TensorFlow and on TPU VMs."""

import pytest

from keras_bert.training.device_peak import PEAKS, peak_of


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100S-PCIE-32GB", "V100S"),
        ("Tesla T4", "T4"),
        ("v5litepod-8", "v5litepod"),
        ("v5p-8", "v5p"),
        ("v4-8", "v4"),
        ("TPU v5 lite", "TPU v5 lite"),
        ("TPU v5p", "v5p"),
        ("TPU v4", "TPU v4"),
        ("TPU v3", "v3"),
    ],
)
def test_known_devices(name, known):
    assert peak_of(name) == PEAKS[known]


@pytest.mark.parametrize("name", ["NVIDIA L40", "NVIDIA T400 4GB", "NVIDIA A1000", "NVIDIA RTX A100000", ""])
def test_other_devices(name):
    assert peak_of(name) is None

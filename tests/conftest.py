"""What holds for every test: one thread, as in a run, and property tests that a busy machine cannot fail."""

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("wardround", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wardround")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)

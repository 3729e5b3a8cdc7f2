from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.skills.hardware_telemetry.config import HardwareTelemetryConfig


def test_critical_may_not_be_cooler_than_warning() -> None:
    with pytest.raises(ValidationError, match="at least temperature_warning_c"):
        HardwareTelemetryConfig(temperature_warning_c=90, temperature_critical_c=80)


def test_a_reading_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError):
        HardwareTelemetryConfig.model_validate_json('{"fields": ["gpu_happiness"]}')

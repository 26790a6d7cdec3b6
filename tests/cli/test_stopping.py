"""A signal that comes at the very start of a command ends it as any other does."""

import signal
from contextlib import contextmanager

import pytest

from dynascope.cli import commands


def test_a_signal_before_the_command_has_begun_is_no_error(monkeypatch, capsys):
    @contextmanager
    def too_early():
        raise commands.Stopped(signal.SIGTERM)
        yield

    monkeypatch.setattr(commands, "_stoppable", too_early)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 143
    assert "stopped by SIGTERM: what is finished is kept" in capsys.readouterr().err

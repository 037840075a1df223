"""The command `completion`: commands and options are completed by the Tab key."""

from dataclasses import dataclass
from typing import Annotated, Literal

import shtab

from napari_mst.cli.command import DONE
from napari_mst.option import Option


@dataclass(frozen=True)
class Completion:
    """The shell that is to complete commands."""

    shell: Annotated[
        Literal["bash", "zsh", "tcsh"], Option("the shell of the script", is_positional=True)
    ]

    examples = ("completion bash > ~/.local/share/bash-completion/completions/napari-mst",)

    def run(self) -> int:
        """Print a script that the shell reads."""
        from napari_mst.cli.main import COMMANDS, parser_of  # it has this command, too

        print(shtab.complete(parser_of(COMMANDS), self.shell))
        return DONE

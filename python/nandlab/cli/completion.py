"""`nandlab completion`."""

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell.

    bash: add `eval "$(nandlab completion bash)"` to ~/.bashrc.

    zsh: write the script to a file _nandlab in a folder of $fpath.

    fish: write the script to ~/.config/fish/completions/nandlab.fish.

    Parameters
    ----------
    shell
        Shell that will read the script.

    """
    from nandlab.cli import application

    print(application().generate_completion(shell=shell, prog_name="nandlab"))
    return 0

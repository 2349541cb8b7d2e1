"""What the shim in a saved directory imports when a user says trust_remote_code=True. Importing it is all it takes."""

from unbottle.hf.saving import UnbottledConfig

__all__ = ["UnbottledConfig"]

"""Images: files read and written, datasets of them in the cache, and what is done to them while a model learns."""

from regard.data.images.files import read, save_arrays, save_grid, save_with_box, stack_pictures, write

__all__ = ["read", "save_arrays", "save_grid", "save_with_box", "stack_pictures", "write"]

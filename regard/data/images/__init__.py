"""Images: reading and writing files, cached datasets, and augmentation."""

from regard.data.images.files import read, save_arrays, save_grid, save_with_box, stack_pictures, write

__all__ = ["read", "save_arrays", "save_grid", "save_with_box", "stack_pictures", "write"]

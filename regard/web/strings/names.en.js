// What attentions are called, in English.

export const namesEn = {
  "names.first": "first layer", "names.layer": "layer {n}", "names.last": "last layer", "names.only": "only layer",
  "names.at": "{layer}, {what}", "names.of": "{what}: {layer}", "names.from_to": "from {from} to {to}",
  "names.cross": "looking at the source", "names.cross_picture": "looking at the picture", "names.chosen": "the region it chose",
  "names.before": "looking at the words before", "names.pixels": "looking at the pixels before", "names.left": "looking to the left",
  "names.reading": "reading", "names.picture": "reading the picture", "names.regions": "putting regions together",
  "names.above_row": "rows above, along the row", "names.above_column": "rows above, up the column",
  "names.pool": "what the answer was taken from", "names.neighbours": "looking at the neighbours",
  "names.memory_read": "reading from the memory", "names.memory_write": "writing into the memory",
  "names.generator": "the painter, looking over its picture", "names.discriminator": "the judge, looking over the picture",
  "names.omics": "looking from one kind of data at the others",
  "names.map_cam": "class activation map (CAM)", "names.map_gradcam": "gradients of the last map (Grad-CAM)",
  "names.map_attention": "attention of the last layer", "names.map_rollout": "attention through all layers (rollout)",
  "names.map_gradient": "attention weighted by gradients",
};

// Sentences of the screen of a picture, in English.

export const imageEn = {
  paint: "Shown as", light_image: "light", colours_image: "colours", numbers_image: "numbers", cam: "CAM", gradcam: "Grad-CAM",
  rollout: "attention rollout", gradient: "attention weighted by gradients", attention_map: "attention of the last block",
  region: "“{query}” gave {percent} to the region in {region} ({value}); an equal share is {equal}.", placed: "row {row}, column {column}",
  region_patch: "The region in {query} gave {percent} to the one in {region} ({value}); an equal share is {equal}.",
  region_asked: "{percent} of what speaks for “{query}” lies in {region} ({value}); an equal share is {equal}.",
  covered: "A picture in {n} regions, brighter where “{word}” looked more",
  covered_asked: "A picture in {n} regions, brighter where more speaks for “{word}”",
  regions: "Arrow keys move from region to region, and in the line above from word to word. “Shown as numbers” is the same in a table.",
  regions_asked: "Arrow keys move from region to region, and in the line above from label to label. “Shown as numbers” is the same in a table.",
  regions_patch: "Arrow keys move from region to region, and in the line above through those that look. “Shown as numbers” is the same in a table.",
  crops: "Boxes: what each spatial transformer cut out; a dot marks the top left of the crop.",
  regional: "What “{word}” gave to each region, as they lie in the picture", corner: "row, column",
  regional_asked: "What speaks for “{word}” in each region, as they lie in the picture", answers: "Answers",
  curve: "If regions go or come, the highest first", deletion: "deletion", insertion: "insertion", also: "{one}; {other}",
  listed: "{name}: {values}", curve_control: "in random orders", curve_area: "on average {area}, in random orders (dashed) {control}",
  curve_ends: "{name}: from {from} to {to}", curve_of: "How probable “{label}” is; regions as ranked by {method}.",
  curve_each: "How probable a word of “{label}” is (geometric mean); regions as ranked by {method}, mean of all words.",
};

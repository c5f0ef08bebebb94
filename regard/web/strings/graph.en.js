// Sentences of the screen of a graph, in English.

export const graphEn = {
  graph: "Neighbourhood", edges: "Edges of this attention, the strongest first", one_node: "node {node}",
  edge: "{query} took {percent} ({value}) from {key}, answered as {answer}; an equal share is {equal}.",
  own_edge: "{query} took {percent} ({value}) from itself; an equal share is {equal}.",
  drawn_edges: "{n} of {all} edges of this attention are drawn; a ring around a node is what it took from itself.",
  faint: "Faint lines are edges of the other layers.", unnamed: "Names without room are left out: point at a node to read its own.",
  controls_graph: "The same model, looking otherwise", equal_control: "all neighbours weighted alike", none_control: "without neighbours",
  spread_graph: "How evenly it looked", spread: "{node} looked as if at {many} nodes with equal weights, out of {all}.",
  around: "Node {node} and {n} nodes around it; the thicker a line, the more was taken along it",
  rings: "In the middle the node that was asked about, around it those it looked at most, around these the ones they looked at in the layer before.",
  looking_graph: "node", looked_graph: "looked at", weight_graph: "weight", equal_graph: "if equal", answered_graph: "answered",
  known_graph: "label", more_edges: "{n} more edges are in the trace (-o trace.json).", "1 away": "one edge away",
  "2 away": "two edges away",
};

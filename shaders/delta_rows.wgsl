// Linear attention in a step of several rows, from the projections to what a head gives: of a row of each of several sequences, or of a token and its
// drafts, row after row. With drafts S is left as it is before the rows, and what each changes is kept. A draft model's step has one row behind those of
// the steps since the model's last one, of which all are kept. Grid [HEADS, VALUE / {{ tile[0] }}, T].
{% set several = true %}
{% include "delta_step.wgsl" %}

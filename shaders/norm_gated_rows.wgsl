// y[t][f] = act(w[f] . x[t]) * (w[F + f] . x[t]) of x = norm(h), for up to {{ tile[1] }} rows of the residual stream, normed here: gated_rows.
{% extends "gated_rows.wgsl" %}
{% set normed = true %}

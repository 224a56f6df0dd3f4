// Linear attention with a state S for each head: the gated delta rule (Gated DeltaNet, arXiv 2412.06464) where DELTA is 1,
//     S = exp(g) S;  d = s (v - S k);  S += d k^T;  y = S q
// with queries and keys of length 1, s = sigmoid(b) and g = A softplus(a + bias); else Mamba-2's (arXiv 2405.21060),
//     S = exp(g) S + d k^T;  y = S q + D v,  d = s v
// with s = softplus(a + bias) and g = A s. Queries, keys and values are channels of a convolution with SiLU behind it.
override HEADS: u32;        // of values
override KEY_HEADS: u32;    // of queries and keys
override KEYS_EACH: u32;    // value heads that share a key head are neighbours, so many; 1: head i has key head i % KEY_HEADS
override KEY: u32;          // width of a query and of a key, a multiple of 4
override Q_AT: u32;         // channels of the convolution: queries,
override K_AT: u32;         // keys
override DELTA: u32;
{% if keys_only is not defined %}
override VALUE: u32;        // width of a value, a multiple of 16
override V_AT: u32;         // where values begin
{% endif %}
fn key_head(head: u32) -> u32 { return (head / KEYS_EACH) % KEY_HEADS; }

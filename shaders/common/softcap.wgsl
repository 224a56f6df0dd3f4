        // With the exponential of what is not positive: no tanh overflows.
        if (SOFTCAP != 0.0) {
            let e = exp(-2.0 * abs(v / SOFTCAP));
            v = sign(v) * SOFTCAP * (1.0 - e) / (1.0 + e);
        }

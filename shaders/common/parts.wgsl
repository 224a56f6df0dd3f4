var<workgroup> parts: array<f32, {{ workgroup // lanes * rows }}>;   // [rows of groups][SPLIT][{{ rows }}]

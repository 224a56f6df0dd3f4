//! Writes JavaScript and TypeScript beside a module of WebAssembly, as `wasm-bindgen --target web --out-dir OUT MODULE`
//! does.

use wasm_bindgen_cli_support::Bindgen;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [module, out] = args.as_slice() else {
        eprintln!("usage: millrace-bind MODULE.wasm OUT");
        std::process::exit(2);
    };
    let mut bindgen = Bindgen::new();
    let bound = bindgen
        .web(true)
        .and_then(|it| it.input_path(module).typescript(true).omit_default_module_path(false).generate(out));
    if let Err(error) = bound {
        eprintln!("{error:?}");
        std::process::exit(1);
    }
}

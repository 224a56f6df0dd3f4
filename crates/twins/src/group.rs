use super::Call;

/// Slots in the order of the experts that rows have chosen, and tiles of at most TILE slots of one expert.
pub fn run(call: &Call) {
    let (used, tile) = (call.usize("USED"), call.u32("TILE"));
    let chosen = call.view::<[u32; 2]>("chosen");
    let slots = call.state().rows as usize * used;
    let (mut order, mut tiles) = (call.write("order"), call.view_mut::<[u32; 4]>("tiles"));
    tiles.fill([0; 4]);
    let (mut at, mut tiles) = (0, tiles.iter_mut());
    for expert in 0..call.u32("EXPERTS") {
        let first = at;
        for slot in (0..slots).filter(|slot| chosen[*slot][0] == expert) {
            order[at as usize] = slot as u32;
            at += 1;
        }
        for begin in (first..at).step_by(tile as usize) {
            if let Some(listed) = tiles.next() {
                *listed = [expert, begin, tile.min(at - begin), 0];
            }
        }
    }
}

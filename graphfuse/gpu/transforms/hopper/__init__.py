"""Products for sm_90a: TMA, `wgmma` and warps with roles, from block functions of the shape of a matrix product."""

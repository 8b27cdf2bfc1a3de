// Cooperative groups: the block, tiles of a warp, sets of lanes, and the grid without its barrier.
// Parts are in cooperative_groups/; a kernel that needs the grid's barrier, clusters or several
// devices does not compile for the host device.
#pragma once

#include "cooperative_groups/lanes.h"
#include "cooperative_groups/block_and_grid.h"
#include "cooperative_groups/tiles.h"

// Kernel files may include it; what of it can run here is in cuda_on_host/async_copies.h already.
#pragma once

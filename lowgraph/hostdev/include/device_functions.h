// Kernel files may include it; all of it that device code can use is in cuda_on_host.h already.
#pragma once

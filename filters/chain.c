#include "filters/chain.h"

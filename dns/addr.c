#include "dns/addr.h"

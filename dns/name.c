#include "dns/name.h"

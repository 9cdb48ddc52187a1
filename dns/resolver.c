#include "dns/resolver.h"

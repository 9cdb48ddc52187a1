#include "dns/target.h"

#include "filters/guard.h"

#include "filters/policy.h"

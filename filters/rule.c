#include "filters/rule.h"

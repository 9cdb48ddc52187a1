#include "filters/outcome.h"

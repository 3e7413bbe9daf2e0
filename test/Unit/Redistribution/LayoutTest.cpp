#include "plumb/Redistribution/LayoutText.h"
#include <gtest/gtest.h>
TEST(Layout, X) {}

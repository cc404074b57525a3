// ranks: 2 3
// launch: -x WEFT_CHECK=1
// Random programs once more, where all elements are compared and packed as a whole: what is right stays right.
#include "random_programs.c"

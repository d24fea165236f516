// Runs the tests of input.test.js at full size.

import "./input.test.js";

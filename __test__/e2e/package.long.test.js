// Runs the tests of package.test.js at full size.

import "./package.test.js";

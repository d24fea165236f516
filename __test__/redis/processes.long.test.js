// The same at full size.

import "./processes.test.js";

import time

import figures

figures.write(figures.late(200, 0.001, time.sleep))
print("200 sleeps")

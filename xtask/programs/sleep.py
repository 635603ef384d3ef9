import time

for _ in range(300):
    time.sleep(0.002)
print("300 sleeps")

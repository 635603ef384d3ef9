thread=audio-1 policy=rr:1

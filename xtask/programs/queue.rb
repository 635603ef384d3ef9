queue = Queue.new
producer = Thread.new { 200.times { |i| sleep 0.002; queue << i } }
puts 200.times.sum { queue.pop }
producer.join

package mindspore

// goodStrategy cuts rows over two ranks.
var goodStrategy = strategyBytes(0, item{name: "w", matrix: []int64{2}, maps: [][]int64{{0, -1}}})

const goodJSON = `{"current_stage":1,"parallel_layout_item":{"w":{"dev_matrix":[2],"field":0,"opt_weight_shard_size":0,` +
	`"opt_weight_shard_step":0,"tensor_map":[0,-1],"tensor_shape":[8,4]}},"parallel_strategy_item":{"MatMul_w":{"stage":0,"parallel_strategy":[[2,1],[1,1]]}}}`

// strategyBytes is the file of one stage.
func strategyBytes(stage int, items ...item) []byte {
	b := appendOperator(appendNumber(nil, 1, 1), stage)
	for i := range items {
		b = items[i].append(b)
	}
	return b
}

"""A run's folder: what a search found and a net trained, as JSON, safetensors, CSV and SVG. Nothing
in it is a pickle.

    meta.json           what was done and how well it went, below
    model.safetensors   the state of `Net`; where weights of layer l are removed, layers.<l>.weight
                        [kept] holds the others, row by row, layers.<l>.weight.bits which they are,
                        one bit each, and layers.<l>.weight.shape their matrix; `feature_index`
                        names the columns of x that the net reads (absent: all)
    graph.safetensors   edge_index [2, kept], edge_weight [kept] where edges weigh other than 1;
                        edge_keep [E] and edge_mask [E] over the edges of the input graph;
                        train_mask, val_mask, test_mask [N]
    found.safetensors   what a retraining starts from: weight_keep.<l>, first.<name>, last.<name>,
                        feature_index unless all features are read, teacher [N, C] if there is one
    inputs.safetensors  what the net reads of the graph, for gassip.runtime: x [N, d], or x_data,
                        x_indices, x_indptr where it is sparse; y [N]; ids, a JSON list as bytes,
                        where nodes have names. Counted in no size
    statistics.safetensors  low, high and mean [D] of the features, by which drift is told
                        (gassip.graph.drift)
    preparation.json    how named columns become x, if the graph came from tables: plain numbers
                        (gassip.graph.preparation)
    decisions.json      what the search decided: a list of stage, taken, tried, statistic, threshold
    leaderboard.json    every net that was trained, best on validation first
                        (gassip.train.leaderboard)
    history.csv         one row per epoch, `phase` search or retrain; an empty cell was not measured
    history.svg         the same as a drawing

meta.json, schema 2 (strict JSON; null where a number is not defined):

    schema            2
    dataset           the graph's name
    source            kind (dataset | file | memory), name or path, seed, undirected, normalize;
                      structure (what x was made of, if no features were given);
                      weighted (where edges have weights: whether these are used);
                      fingerprint of the graph (Graph.fingerprint) and inputs_fingerprint (the same
                      without labels and splits)
    nodes, features   sizes of the input graph
    class_names       list, in the order of the net's outputs
    preset            name, or null
    seed, metric      of search and retraining; what validation judged by
    settings          the inputs of the search, by flat name (gassip.settings)
    recipe            how the net was trained (gassip.settings.training.Recipe)
    symmetrised       whether every edge is read both ways
    soft_edges        whether kept edges weigh M_G besides what was given
    architecture      list of operation names, one per layer
    net               hidden and heads (lists, one per hidden layer), batch_norm, layer_norm
                      (absent: false), dropout: what rebuilds `Net`; and label_weight of the
                      label-propagation logits (0: none)
    found             ops, hidden, heads, batch_norm, layer_norm of what was found: the net's before
                      shrinking
    weights_kept, weights_total, edges_kept, edges_total: by the masks, of the net that was
        retrained
    size              what is physically there: params stored, bytes of model.safetensors, edges,
                      macs (gassip.nn.size)
    accuracy          {train, val, test}; a split without nodes is null
    scores            {metric: {split: value}}, all that are defined
    budget            the bounds that were given, {max_params: "25%", ...}; empty without any
    constant          validation score of the largest class named for every node; null: undefined
    inductive         score, seen, nodes, seconds (gassip.train.inductive); null or absent: not
                      measured
    latency_ms        of one inference, if a budget bounds it
    speed             ms of one inference, gcn_ms of a GCN-64's on the same graph
                      (gassip.budget.speed); absent: not measured
    seconds           {search, retrain}
    best_epoch        of retraining, from 1
    versions          gassip, torch, torch_geometric, numpy, python
    threads, device   what it ran on
    notes             what was cleaned or drawn on the way in
    files             {name: sha256} of the others
    inputs_bytes      of inputs.safetensors
    sha256            of this object without this key, as compact JSON with sorted keys
"""
